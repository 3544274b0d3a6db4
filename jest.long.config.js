// What takes minutes, and is run beside the tests and not among them: npm run test:long.
module.exports = {
  ...require('./jest.config.js'),
  testMatch: ['<rootDir>/test/compat/**/*.test.ts', '<rootDir>/test/long/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  // Each file starts a dozen processes.
  maxWorkers: 1,
  testTimeout: 900_000,
};
