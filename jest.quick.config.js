module.exports = {
  ...require('./jest.config.js'),
  testPathIgnorePatterns: [
    ...require('./jest.config.js').testPathIgnorePatterns,
    // They start whole products.
    '<rootDir>/test/whole/',
    ...require('./test/support/jest/slow-tests.cjs').slow.map((end) => `${end}$`),
  ],
};
