import type { Claim } from './data-directory';
import type { Output } from './output';
import { killGroup, type Program } from './processes';
import { type Kept, keepRunning } from './supervisor';

/** Stages stop one after the other, the last first; the parts of a stage together. */
const STAGES = ['servers', 'services', 'gateways'] as const;

type Stage = (typeof STAGES)[number];

/** The processes that run, and the order in which they stop. */
export interface Stack {
  /** Starts a process and resolves when it is ready. */
  run: (stage: Stage, program: Program) => Promise<Kept>;
  /** Stops everything in order, within eight seconds. */
  stop: () => Promise<void>;
  /** Ends everything at once. */
  kill: () => void;
}

// Together they leave a second of the eight for what has to be killed.
const GRACE_MS: Record<Stage, number> = { servers: 2_500, services: 2_000, gateways: 2_000 };

export function createStack(output: Output, claim: Claim, onReady: () => void): Stack {
  const parts: { stage: Stage; kept: Kept }[] = [];
  const pids = new Map<string, number>();
  let is_stopping = false;

  const stopStage = async (stage: Stage) => {
    const here = parts.filter((part) => part.stage === stage);
    await Promise.all(here.map(({ kept }) => kept.stop(GRACE_MS[stage])));
  };
  return {
    run: async (stage, program) => {
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
    stop: async () => {
      is_stopping = true;
      for (const stage of STAGES.toReversed()) await stopStage(stage);
    },
    kill: () => {
      for (const pid of pids.values()) killGroup(pid);
    },
  };
}
