// Runs a TypeScript program of ours: node run.cjs <file> [arguments]. What the file exports as `main` is called with the arguments.
// esbuild makes one script of it and of all of ours that it imports, in a tenth of a second and in memory, so that no build folder
// can be out of date. One script starts twice as fast as what a loader compiles file by file, and calls between its modules cost
// nothing more. Packages are left to Node's own `require`.
const { existsSync } = require('node:fs');
const { Module } = require('node:module');
const path = require('node:path');
// Without this it keeps a process and a thread of its own for later builds, of which there are none.
process.env.ESBUILD_WORKER_THREADS = '0';
const { buildSync } = require('esbuild');
const { dependencies, devDependencies } = require('./package.json');

// Packages of ES modules only, which Node requires from 22.12 on and not from 22.0, become a part of the script. The first is there
// for the second alone, which has a version of its own: that of the tests is not there after `npm ci --omit=dev`.
const es_modules = ['hyparquet', 'hyparquet-writer', 'jose'];
const packages = Object.keys({ ...dependencies, ...devDependencies });

const [node, , file = '', ...given] = process.argv;
const program_file = path.resolve(file);
if (!existsSync(program_file) || !file.endsWith('.ts')) {
  process.stderr.write(
    `There is no program ${program_file}. Usage: node run.cjs <file.ts> [arguments]\n`,
  );
  process.exit(2);
}
// Where the program takes itself to be: beside the file that tells the project's folder (runtime/root.ts).
const place = path.join(__dirname, 'runtime', `${path.basename(program_file, '.ts')}.compiled.cjs`);

process.setSourceMapsEnabled(true);
process.argv = [node, program_file, ...given];
const program = new Module(place);
program.filename = place;
program.paths = Module._nodeModulePaths(__dirname);
program._compile(compiled(), place);
Promise.resolve(program.exports.main?.(given)).catch((error) => {
  // What the person at the terminal is to do stands in the message; anything else is a bug, and its place helps.
  const is_told = ['ConfigError', 'AppError'].includes(error?.name);
  process.stderr.write(`${is_told ? error.message : (error?.stack ?? error)}\n`);
  process.exit(1);
});

function compiled() {
  const { outputFiles } = buildSync({
    entryPoints: [program_file],
    bundle: true,
    external: packages.filter((name) => !es_modules.includes(name)),
    platform: 'node',
    target: `node${process.versions.node}`,
    sourcemap: 'inline',
    sourcesContent: false,
    outfile: place,
    write: false,
    logLevel: 'warning',
  });
  return outputFiles[0].text;
}
