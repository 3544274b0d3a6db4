const { createRequire, isBuiltin } = require('node:module');
const Runtime = require('jest-runtime').default;

/**
 * Loads packages with Node's own `require`, once a worker. Jest would read and compile a thousand
 * files of theirs anew for each test file, several seconds of a core. The reasons are in
 * environment.cjs.
 */
module.exports = class PackagesOnce extends Runtime {
  requireModuleOrMock(from, name) {
    const isOurs = name.startsWith('.') || name.startsWith('/') || name.startsWith('@jest/');
    if (isOurs || isBuiltin(name)) return super.requireModuleOrMock(from, name);
    return createRequire(from)(name);
  }
};
