import { Button, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { type Answer, fileOf } from '../api/client';
import { act } from '../parts/act';
import { saveFile } from '../parts/file-link';
import { JOINED_BYTES_MAX, joinedCsv } from './joined';
import { type Kind, kindNames, kinds, sizeText } from './words';

type Whole = Answer<'GET /api/exports/:id'>;
type File = Whole['files'][number];

/**
 * Keeps the days of each kind, unpacked, as one file that a spreadsheet opens. Files of a bucket
 * come from there, which a page may open and not read.
 */
export function JoinButtons({ one }: { one: Whole }) {
  if (one.format !== 'csv' || one.status !== 'completed' || one.target === 's3') return null;
  const all = kindNames
    .map((kind) => ({ kind, files: filesOf(one, kind) }))
    .filter(({ files }) => files.length > 0);
  const large = all.filter(({ files }) => sizeOf(files) > JOINED_BYTES_MAX);
  return (
    <>
      <Group gap="xs">
        {all
          .filter((each) => !large.includes(each))
          .map((each) => (
            <JoinButton key={each.kind} one={one} {...each} />
          ))}
      </Group>
      {large.length > 0 && (
        <Text size="sm" c="dimmed">
          More than {sizeText(JOINED_BYTES_MAX)} are too much for one file here:{' '}
          {large.map(({ kind }) => kinds[kind]).join(', ')}. Download the packed files below.
        </Text>
      )}
    </>
  );
}

function JoinButton({ one, kind, files }: { one: Whole; kind: Kind; files: readonly File[] }) {
  const [done, setDone] = useState<number>();
  const keep = async () => {
    setDone(0);
    try {
      const reads = files.map(({ n }) => async () => {
        const { data } = await fileOf(`/api/exports/${one.id}/files/${n}`);
        return data;
      });
      const data = await joinedCsv(reads, setDone);
      const name = `${kind}-${one.from.slice(0, 10)}-${one.to.slice(0, 10)}.csv`;
      saveFile(name, data);
      const of = files.length === 1 ? 'one file' : `${files.length} files`;
      notifications.show({ message: `${name} has the rows of ${of}.` });
    } finally {
      setDone(undefined);
    }
  };
  return (
    <Button
      variant="default"
      aria-busy={done !== undefined}
      onClick={() => done === undefined && void act(keep)}
    >
      {done === undefined ? `${kinds[kind]}: one CSV` : `${done} of ${files.length} files read…`}
    </Button>
  );
}

/** The days of a kind that have rows, in their order. */
function filesOf({ files }: Whole, kind: Kind): File[] {
  return files
    .filter((file) => file.kind === kind && file.sha256 !== null)
    .sort((a, b) => (a.day ?? '').localeCompare(b.day ?? '') || a.n - b.n);
}

function sizeOf(files: readonly File[]): number {
  return files.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0);
}
