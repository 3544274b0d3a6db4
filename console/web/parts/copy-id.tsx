import { Button, CopyButton, Tooltip } from '@mantine/core';

/** An id as it is shown where it has no name: `key_01a22d…bbb1`. */
export function shortId(id: string): string {
  return id.length > 18 ? `${id.slice(0, 10)}…${id.slice(-4)}` : id;
}

/** A value that a person may need elsewhere: a click copies it. */
export function CopyId({ value, label }: { value: string; label?: string }) {
  const shown = label ?? shortId(value);
  // Its name begins with what is seen, so that it can be called by voice.
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${value}`}>
          <Button
            variant="subtle"
            size="compact-xs"
            className="id"
            onClick={copy}
            aria-label={
              copied ? `Copied ${value}` : `${shown}: copy ${shown === value ? 'it' : value}`
            }
          >
            {copied ? 'Copied' : shown}
          </Button>
        </Tooltip>
      )}
    </CopyButton>
  );
}
