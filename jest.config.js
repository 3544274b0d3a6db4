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
  // jose is ESM only, the exporter imports as it runs; Jest can do either by itself from Node 24.9.
  transformIgnorePatterns: ['/node_modules/(?!jose/|@opentelemetry/otlp-exporter-base/)'],
  modulePathIgnorePatterns: ['<rootDir>/.data'],
};
