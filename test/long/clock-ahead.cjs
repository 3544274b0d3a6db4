// For node --require: the clock of this process is so many milliseconds ahead.
const ahead_ms = Number(process.env.CLOCK_AHEAD_MS);
const { now } = Date;
Date.now = () => now() + ahead_ms;
