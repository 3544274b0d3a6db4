// One realm for a worker and its test files.
//
// Why: Jest gives each test file a `vm` context, and reads and compiles every package anew in it.
// Half of the work of a file of the gateway is that: six of them took 22 s of a core with this
// folder and 41 s without, six of the API 22 s and 28 s. Packages of ES modules only, such as jose,
// do not load in a context before Node 24.9, unless each is transformed. And an Error of ours is no
// `instanceof` the Error of a package there, although it is in the product.
//
// It patches `vm.compileFunction` (below), which then compiles in the worker's realm if Jest passes
// the stand-in of this environment as the context; other callers get Node's own behaviour.
// runtime.cjs overrides `requireModuleOrMock`, a method of Jest's runtime that is not public.
//
// What has been compiled once in the realm is run again for the next file, as the same function with
// a new `module`: the modules of our own stay fresh, and only reading and compiling them falls away.
//
// Its cost: test files of a worker share its globals, so that a test must give back what it
// changes; Jest's fake timers and mocks of packages do not exist.
//
// When it can go: when Jest can keep packages over the files of a worker and run them without a
// context, or when the tests run on another runner. To see whether it still pays, run a few files
// of test/gateway with `testEnvironment: 'node'`, without `runtime`, and with a transform for the
// packages of ES modules.
const vm = require('node:vm');
const { ModuleMocker } = require('jest-mock');

// Jest compiles in the context that its environment names; this one stands for the worker's realm.
const own = Object.freeze({});
const { compileFunction } = vm;
const { exit } = process;
const compiled = new Map();
vm.compileFunction = (code, params, { parsingContext, ...options } = {}) => {
  if (parsingContext !== own) return compileFunction(code, params, { ...options, parsingContext });
  const before = compiled.get(options.filename);
  if (before?.code === code) return before.run;
  // An `import()` in it would reach the runtime of the file that compiled it.
  if (/\bimport\(/.test(code)) return compileFunction(code, params, options);
  const run = compileFunction(code, params, options);
  compiled.set(options.filename, { code, run });
  return run;
};

/** Test files run in the worker's realm. Modules of our own are still fresh for each file. */
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
    // What the file before has left: its handlers, which would hear each later test, its tests, and
    // Jest's wrapper of `exit`. Each would hold all its modules for as long as the worker lives.
    process.exit = exit;
    for (const symbol of Object.getOwnPropertySymbols(globalThis)) {
      if (['EVENT_HANDLERS', 'JEST_STATE_SYMBOL'].includes(symbol.description))
        delete globalThis[symbol];
    }
  }

  /** A test that failed with random choices (test/support/random.ts) says how to repeat them. */
  handleTestEvent({ name, test }) {
    if (name !== 'test_done' || test.errors.length === 0 || globalThis.test_seed === undefined)
      return;
    console.error(`"${test.name}" failed with TEST_SEED=${globalThis.test_seed}.`);
  }

  async teardown() {}
};
