module.exports = {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // They are those of npm run test:long.
  testPathIgnorePatterns: [
    '/node_modules/',
    '<rootDir>/test/compat/',
    '<rootDir>/test/long/',
    // Those of npm run test:console.
    '<rootDir>/test/console/browser/',
  ],
  testEnvironment: '<rootDir>/test/support/jest/realm/environment.cjs',
  runtime: '<rootDir>/test/support/jest/realm/runtime.cjs',
  testSequencer: '<rootDir>/test/support/jest/slow-first.cjs',
  globalSetup: '<rootDir>/test/support/jest/start-servers.ts',
  globalTeardown: '<rootDir>/test/support/jest/stop-servers.ts',
  // One more than the cores of a small machine, as many tests wait. With four it takes as long, and
  // each answer is later.
  maxWorkers: 3,
  // Test files share the globals of their worker.
  restoreMocks: true,
  // No bound either: longer than several waits of test/support/until.
  testTimeout: 300_000,
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
        module: { type: 'commonjs' },
      },
    ],
  },
  modulePathIgnorePatterns: ['<rootDir>/.data'],
};
