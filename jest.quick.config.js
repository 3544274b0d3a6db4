module.exports = {
  ...require('./jest.config.js'),
  testPathIgnorePatterns: [
    ...require('./jest.config.js').testPathIgnorePatterns,
    ...require('./test/support/jest/slow-tests.cjs').slow.map((end) => `${end}$`),
  ],
};
