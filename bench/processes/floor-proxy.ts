import { createServer } from 'node:http';
import { Pool } from 'undici';

// The proxy that anybody would write first: node:http and undici, no key, no limit, no money, no
// metering.
const upstream = new Pool(process.env.UPSTREAM_URL as string);
const server = createServer(async (req, res) => {
  const { host: _, connection: __, ...headers } = req.headers;
  try {
    const answer = await upstream.request({
      path: req.url as string,
      method: 'POST',
      headers: { ...headers, authorization: 'Bearer upstream' },
      body: req,
    });
    res.writeHead(answer.statusCode, answer.headers);
    answer.body.pipe(res);
  } catch {
    res.writeHead(502).end();
  }
});
server.listen(Number(process.env.PORT), '127.0.0.1');
