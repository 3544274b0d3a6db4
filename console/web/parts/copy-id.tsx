import { Button, CopyButton, Tooltip } from '@mantine/core';

/** A value that a person may need elsewhere: a click copies it. */
export function CopyId({ value, label }: { value: string; label?: string }) {
  const shown = label ?? (value.length > 18 ? `${value.slice(0, 10)}…${value.slice(-4)}` : value);
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${value}`}>
          <Button
            variant="subtle"
            size="compact-xs"
            className="id"
            onClick={copy}
            aria-label={copied ? `Copied ${value}` : `${shown}: copy it`}
          >
            {copied ? 'Copied' : shown}
          </Button>
        </Tooltip>
      )}
    </CopyButton>
  );
}
