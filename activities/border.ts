import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common';
import { isAppError } from '../domain/errors';

/** An activity behind the error border. */
export function behindBorder<Input, Result>(run: (input: Input) => Promise<Result>) {
  return (input: Input) => refusable(() => run(input));
}

/**
 * The error border: a refusal is final and carries its code as the failure's type; anything else is
 * retried.
 */
export async function refusable<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (isAppError(error) && error.status < 500) {
      const { message, code: type, status, details } = error;
      // Benign: a refused verdict is an answer, not an incident.
      const category = ApplicationFailureCategory.BENIGN;
      throw ApplicationFailure.create({
        message,
        type,
        category,
        nonRetryable: true,
        details: [{ status, ...details }],
      });
    }
    // Another try may succeed; if none does, the workflow knows why.
    if (isAppError(error) && error.code !== 'internal_error')
      throw ApplicationFailure.create({
        message: error.message,
        type: error.code,
        nonRetryable: error.code === 'ledger_broken',
      });
    throw error;
  }
}
