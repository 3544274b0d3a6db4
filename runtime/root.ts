import path from 'node:path';

/**
 * The project's folder. This file lies one folder below it, and so does each compiled program
 * (run.cjs).
 */
export const root = path.dirname(__dirname);
