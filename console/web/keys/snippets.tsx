import { Button, Code, CopyButton, Stack, Tabs, Text } from '@mantine/core';
import { addresses } from '../base/addresses';
import type { Models } from './models';
import { programs } from './programs';

/** How to use a key, for each kind of program. */
export function Snippets({ value, models }: { value: string; models: Models }) {
  const place = { key: value, gateway: addresses.gateway_url };
  return (
    <Tabs defaultValue="curl" keepMounted={false}>
      <Tabs.List>
        {programs.map(({ name }) => (
          <Tabs.Tab key={name} value={name}>
            {name}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {programs.map(({ name, wire, texts, note }) => {
        const model = models[wire];
        return (
          <Tabs.Panel key={name} value={name} pt="xs">
            {model === undefined ? (
              <Text>No model here is served on this wire.</Text>
            ) : (
              <Stack gap="xs">
                {texts(place, model).map((one) => (
                  <Snippet
                    key={one.name ?? name}
                    text={one.text}
                    label={`How to use it with ${name}${one.name ? `: ${one.name}` : ''}`}
                  />
                ))}
                {note && <Text size="sm">{note}</Text>}
              </Stack>
            )}
          </Tabs.Panel>
        );
      })}
    </Tabs>
  );
}

function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <>
      <Code block tabIndex={0} aria-label={label}>
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button size="xs" variant="default" onClick={copy}>
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
    </>
  );
}
