const vm = require('node:vm');
const { ModuleMocker } = require('jest-mock');

// What stands for the worker's own realm where Jest asks for a context to compile in.
const own = Object.freeze({});
const { compileFunction } = vm;
vm.compileFunction = (code, params, { parsingContext, ...options } = {}) =>
  compileFunction(code, params, parsingContext === own ? options : { ...options, parsingContext });

/**
 * Test files run in the worker's own realm, as the product does: packages are loaded once a worker (runtime.cjs) and
 * `instanceof` holds between them and our code. Modules of our own are still fresh for each file.
 */
module.exports = class OneRealm {
  constructor() {
    this.global = globalThis;
    this.moduleMocker = new ModuleMocker(globalThis);
    this.fakeTimers = null;
    this.fakeTimersModern = null;
  }

  exportConditions() {
    return ['node', 'node-addons'];
  }

  getVmContext() {
    return own;
  }

  async setup() {
    delete globalThis.test_seed;
  }

  /** A test that failed with random choices (test/support/random.ts) says how to repeat them. */
  handleTestEvent({ name, test }) {
    if (name !== 'test_done' || test.errors.length === 0 || globalThis.test_seed === undefined)
      return;
    console.error(`"${test.name}" failed with TEST_SEED=${globalThis.test_seed}.`);
  }

  async teardown() {}
};
