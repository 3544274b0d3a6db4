import { createServer, type ServerResponse } from 'node:http';

// A model provider that answers at once, so that the way to it is measured.
const text = 'word '.repeat(200);
const usage = { prompt_tokens: 180, completion_tokens: 200, total_tokens: 380 };
const answer = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  model: 'gpt-4o-mini',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage,
});
const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', model: 'gpt-4o-mini', choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;
const streamOf = (words: number) => [
  chunk({ role: 'assistant', content: '' }),
  ...Array.from({ length: words }, () => chunk({ content: 'word ' })),
  chunk({}, { choices: [], usage }),
  'data: [DONE]\n\n',
];
const stream = streamOf(30);
const paced = streamOf(20);
const PACE_MS = 5;

const tool_result = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  result: { content: [{ type: 'text', text }] },
});

/** 20 writes, a word each: the role goes with the first, the usage and the end with the last. */
function writePaced(res: ServerResponse): void {
  const [role = '', ...frames] = paced;
  let at = 0;
  res.write(`${role}${frames[0]}`);
  const timer = setInterval(() => {
    at += 1;
    const is_last = at === frames.length - 3;
    res.write(is_last ? frames.slice(at).join('') : (frames[at] as string));
    if (!is_last) return;
    clearInterval(timer);
    res.end();
  }, PACE_MS);
}

const server = createServer((req, res) => {
  let body = '';
  req.setEncoding('utf8');
  req.on('data', (part) => {
    body += part;
  });
  req.on('end', () => {
    if (req.url === '/mcp') {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(tool_result);
      return;
    }
    if (!body.includes('"stream":true')) {
      res.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(answer),
      });
      res.end(answer);
      return;
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    if (body.includes('"user":"paced"')) {
      writePaced(res);
      return;
    }
    for (const frame of stream) res.write(frame);
    res.end();
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1');
