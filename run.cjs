// Runs a TypeScript program of ours: node run.cjs <file> [arguments].
// esbuild makes one script of it and of all of ours that it imports, in a tenth of a second and in memory, so that no build folder
// can be out of date. One script starts twice as fast as what a loader compiles file by file, and calls between its modules cost
// nothing more. Packages are left to Node's own `require`.
const { Module } = require('node:module');
const path = require('node:path');
const { buildSync } = require('esbuild');

const [node, , file, ...given] = process.argv;
const main = path.resolve(file);
// Where the program takes itself to be: in all of it `__dirname` is the project's folder (see root.ts).
const place = path.join(__dirname, `${path.basename(main, '.ts')}.compiled.cjs`);

process.setSourceMapsEnabled(true);
process.argv = [node, main, ...given];
const program = new Module(place);
program.filename = place;
program.paths = Module._nodeModulePaths(__dirname);
program._compile(compiled(), place);
// A file that is a module for others too, and does nothing when it is loaded, exports what it does as a program.
Promise.resolve(program.exports.main?.()).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});

function compiled() {
  const { outputFiles } = buildSync({
    entryPoints: [main],
    bundle: true,
    packages: 'external',
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
