module.exports = {
  ...require('./jest.config.js'),
  testPathIgnorePatterns: require('./test/support/slow-tests.cjs').map((end) => `${end}$`),
};
