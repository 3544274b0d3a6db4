module.exports = {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testEnvironment: '<rootDir>/test/support/realm/environment.cjs',
  runtime: '<rootDir>/test/support/realm/runtime.cjs',
  testSequencer: '<rootDir>/test/support/realm/slow-first.cjs',
  globalSetup: '<rootDir>/test/support/start-servers.ts',
  globalTeardown: '<rootDir>/test/support/stop-servers.ts',
  maxWorkers: 3,
  testTimeout: 60_000,
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
