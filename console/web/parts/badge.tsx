import { Badge } from '@mantine/core';

// Dark on pale and pale on dark: readable in both schemes.
const colours = {
  good: 'green',
  waiting: 'yellow',
  bad: 'red',
  neutral: 'gray',
  info: 'indigo',
} as const;

/** A state in one word. Its colour says nothing that the word does not. */
export function State({ word, kind }: { word: string; kind: keyof typeof colours }) {
  return (
    <Badge color={colours[kind]} variant="light" className="state">
      {word}
    </Badge>
  );
}
