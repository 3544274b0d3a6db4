import type { Claim } from './data-directory';
import type { Output } from './output';
import { killGroup, type Program } from './processes';
import { type Kept, keepRunning } from './supervisor';

/** Stages stop one after the other, the last first; the parts of a stage together. */
const STAGES = ['servers', 'services', 'gateways'] as const;

type Stage = (typeof STAGES)[number];

// Together they leave one second of the eight to kill the rest.
const GRACE_MS: Record<Stage, number> = { servers: 2_500, services: 2_000, gateways: 2_000 };

/** The processes that run, and the order in which they stop. */
export type Stack = ReturnType<typeof openStack>;

export function openStack(output: Output, claim: Claim, onReady: () => void) {
  const parts: { stage: Stage; kept: Kept }[] = [];
  const pids = new Map<string, number>();
  let is_stopping = false;

  const stopStage = async (stage: Stage) => {
    const here = parts.filter((part) => part.stage === stage);
    await Promise.all(here.map(({ kept }) => kept.stop(GRACE_MS[stage])));
  };
  return {
    /** Starts a process and resolves when it is ready. */
    run: async (stage: Stage, program: Program): Promise<Kept> => {
      if (is_stopping) throw new Error('npm start was stopped.');
      const kept = keepRunning(program, {
        log: output.log,
        onReady,
        onLine: (line) => output.line(program.name, line),
        onPid: (pid) => {
          pids.set(program.name, pid);
          claim.remember(program.name, pid);
        },
      });
      parts.push({ stage, kept });
      await kept.first_start;
      return kept;
    },
    /** Stops everything in order, within eight seconds. */
    stop: async () => {
      is_stopping = true;
      for (const stage of STAGES.toReversed()) await stopStage(stage);
    },
    /** Ends everything at once. */
    kill: () => {
      for (const pid of pids.values()) killGroup(pid);
    },
  };
}
