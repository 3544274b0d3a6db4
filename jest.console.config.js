// The console in Chromium, before one whole product that all files share: npm run test:console.
module.exports = {
  ...require('./jest.config.js'),
  testMatch: ['<rootDir>/test/console/browser/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  globalSetup: '<rootDir>/test/support/console/start-product.ts',
  globalTeardown: '<rootDir>/test/support/console/stop-product.ts',
  // One file after the other: several move the money of the demo.
  maxWorkers: 1,
};
