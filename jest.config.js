module.exports = {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testEnvironment: 'node',
  globalSetup: '<rootDir>/test/support/start-servers.ts',
  globalTeardown: '<rootDir>/test/support/stop-servers.ts',
  maxWorkers: 2,
  testTimeout: 60_000,
  transform: {
    '\\.[jt]s$': [
      '@swc/jest',
      {
        jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
        module: { type: 'commonjs' },
      },
    ],
  },
  // jose is ESM only; Jest can load ESM by itself from Node 24.9.
  transformIgnorePatterns: ['/node_modules/(?!jose/)'],
  modulePathIgnorePatterns: ['<rootDir>/.data'],
};
