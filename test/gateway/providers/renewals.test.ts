import { Writable } from 'node:stream';
