// Loaded before each process that npm start runs: if npm start is killed, its channel closes,
// and the process drains and ends. Plain JavaScript, because Temporal's workflow threads load it
// too, and before anything is compiled.
const DRAIN_MS = 5_000;

if (process.channel) {
  process.once('disconnect', () => {
    process.kill(process.pid, 'SIGTERM');
    setTimeout(() => process.exit(1), DRAIN_MS).unref();
  });
  // Listening alone must not keep a process alive that has nothing else to do.
  process.channel.unref();
}
