import { once } from 'node:events';
import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import selfsigned from 'selfsigned';

/** Certificates of one authority: of a server named localhost, and of one client. */
export async function makeCertificates() {
  const authority = await selfsigned.generate([{ name: 'commonName', value: 'Test authority' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  const ca = { key: authority.private, cert: authority.cert };
  const leaf = (name: string, usage: object) =>
    selfsigned.generate([{ name: 'commonName', value: name }], {
      keyType: 'ec',
      algorithm: 'sha256',
      ca,
      extensions: [
        { name: 'extKeyUsage', ...usage },
        { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] },
      ],
    });
  const server = await leaf('temporal', { serverAuth: true });
  const client = await leaf('svc', { clientAuth: true });
  return { authority: authority.cert, server, client };
}

interface Door {
  /** `127.0.0.1:port` */
  address: string;
  close: () => Promise<void>;
}

/**
 * A door in front of a Temporal server, as an operator puts one: TLS, and a client certificate or
 * an API key if they are asked for. What passes reaches the server as it is.
 */
export async function openDoor(
  to: string,
  options: { key: string; cert: string; client_authority?: string; api_key?: string },
): Promise<Door> {
  const { key, cert, client_authority, api_key } = options;
  const inside = http2.connect(`http://${to}`);
  const server = http2.createSecureServer({
    key,
    cert,
    ...(client_authority
      ? { ca: client_authority, requestCert: true, rejectUnauthorized: true }
      : {}),
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    if (api_key !== undefined && headers.authorization !== `Bearer ${api_key}`) {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '16' });
      stream.end();
      return;
    }
    const request = inside.request({ ...headers, ':scheme': 'http', ':authority': to });
    request.on('error', () => stream.destroy());
    request.on('response', (answered) => stream.respond(answered, { waitForTrailers: true }));
    let trailers: http2.IncomingHttpHeaders = {};
    request.on('trailers', (given) => {
      trailers = given;
    });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.on('close', () => request.close());
    stream.pipe(request).pipe(stream);
  });
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.on('sessionError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const session of sessions) session.destroy();
      server.close();
      inside.close();
    },
  };
}
