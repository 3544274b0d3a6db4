import type { Logger } from '../runtime/log';

/** A line of Temporal's SDK; its `meta` may carry an error that a workflow failed with. */
interface SdkLine {
  level: string;
  message: string;
  meta?: { error?: unknown } | undefined;
}

/** Writes lines of the SDK into our log, from warnings up, each error with its words. */
export function sdkLogInto(log: Logger): (line: SdkLine) => void {
  return ({ level, message, meta }) => {
    const { error, ...rest } = meta ?? {};
    // Under this name a logger writes the words of an error, which has no members of its own.
    const line = error === undefined ? rest : { ...rest, err: error };
    if (level === 'ERROR') log.error(line, message);
    else if (level === 'WARN') log.warn(line, message);
  };
}
