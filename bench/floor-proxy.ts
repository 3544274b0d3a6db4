import { createServer } from 'node:http';
import { Pool } from 'undici';

// The least that a proxy can do: node:http and undici, no key, no limit, no money, no metering.
const upstream = new Pool(process.env.UPSTREAM_URL as string);
const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    const headers = { 'content-type': 'application/json', authorization: 'Bearer upstream' };
    upstream.dispatch(
      { path: req.url as string, method: 'POST', headers, body },
      {
        onRequestStart() {},
        onResponseStart(_controller, status, given) {
          res.writeHead(status, { 'content-type': given['content-type'] as string });
        },
        onResponseData(_controller, chunk) {
          res.write(chunk);
        },
        onResponseEnd() {
          res.end();
        },
        onResponseError() {
          res.destroy();
        },
      },
    );
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1', () => process.send?.('ready'));
