import Koa from 'koa';

// One idle route of the API's framework: what a round trip to a service costs without any work.
const app = new Koa();
app.use(async (ctx) => {
  ctx.body = { status: 'ok' };
});
app.listen(Number(process.env.PORT), '127.0.0.1');
