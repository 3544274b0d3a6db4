import { SMTPServer } from 'smtp-server';
import type { Receiver } from './receiver';

/** A mail server that keeps what it is sent, under the path `mail`, with the addresses in front. */
export function createMailServer(receiver: Receiver): SMTPServer {
  return new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    disableReverseLookup: true,
    onRcptTo({ address }, _session, done) {
      const script = receiver.takeFault(`mail to ${address}`);
      done(script && Object.assign(new Error('refused'), { responseCode: script.status }));
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const script = receiver.takeFault('mail');
        // The sender waits until its own time is over.
        if (script?.answer === 'timeout') return;
        if (script)
          return done(Object.assign(new Error('refused'), { responseCode: script.status }));
        const to = session.envelope.rcptTo.map(({ address }) => address);
        receiver.keep({ path: 'mail', headers: { to }, body: Buffer.concat(chunks).toString() });
        done();
      });
    },
  });
}
