import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';

const TYPING_MS = 250;

/**
 * A field of a filter that stands in the page's address. It says what was typed once nobody types
 * any more, and follows the address when something else changes that.
 */
export function FilterInput({
  value = '',
  onFilter,
  ...rest
}: {
  label: string;
  placeholder?: string;
  value: string | undefined;
  /** Hears the words, without blanks around them. */
  onFilter: (words: string) => void;
  w?: number;
}) {
  const [text, setText] = useState(value);
  const told = useRef(value);
  useEffect(() => {
    if (value === told.current) return;
    told.current = value;
    setText(value);
  }, [value]);
  const tell = useDebouncedCallback((words: string) => {
    told.current = words;
    onFilter(words);
  }, TYPING_MS);
  return (
    <TextInput
      {...rest}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        tell(event.currentTarget.value.trim());
      }}
    />
  );
}
