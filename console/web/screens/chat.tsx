import { Alert, Button, Group, Select, Stack, Text, Textarea } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from 'react';
import { send } from '../api/client';
import { reading } from '../api/queries';
import { Held, Left } from '../chat/held';
import type { Speaker } from '../chat/kept';
import { Said } from '../chat/said';
import { useChat } from '../chat/use-chat';
import { refusalWords } from '../chat/words';
import { text, useFilters } from '../fields/filters';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Loading } from '../parts/states';
import { useMe } from '../session/me';
import { giveUp } from './top-up';

// The list of models does not say what each is for; these names do.
const no_chat = /embed|moderation|tts|whisper|transcribe|realtime|dall-e|image|rerank/i;

const shape = { canceled: text };

/** A small chat: by a short-lived key of the person's own, with the cost of each answer. */
export function Chat() {
  const me = useMe();
  // A checkout that was left, of a message that waits.
  const [{ canceled }] = useFilters(shape);
  useEffect(() => {
    if (canceled !== undefined) void giveUp(canceled);
  }, [canceled]);
  const { data, error } = useQuery({
    queryKey: ['/api/chat/models'],
    queryFn: ({ signal }) =>
      send('GET', '/api/chat/models', { signal }) as Promise<{ data: { id: string }[] }>,
    enabled: me.user !== null,
    staleTime: 300_000,
    retry: false,
  });
  if (me.user === null)
    return (
      <Page title="Chat">
        <Empty title="The chat is for people">
          You are signed in as an operator. Sign in as a person to chat.
        </Empty>
      </Page>
    );
  if (error && data === undefined) {
    const { title, words, way } = refusalWords(error);
    return (
      <Page title="Chat">
        <Empty title={title}>
          {words} {way && <AppLink to={way.to}>{way.label}</AppLink>}
        </Empty>
      </Page>
    );
  }
  if (data === undefined) return <Loading />;
  const models = data.data.map(({ id }) => id).filter((id) => !no_chat.test(id));
  const speaker = { user_id: me.user.user_id, org_id: me.org_id };
  return <Talk key={`${speaker.user_id} ${speaker.org_id}`} {...{ models, speaker }} />;
}

function Talk({ models, speaker }: { models: string[]; speaker: Speaker }) {
  const chat = useChat(speaker);
  const { messages, ticket, left, draft, problem } = chat;
  const model = chat.model ?? models[0] ?? null;
  const is_busy = draft !== undefined;
  const end = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  /** Does what a button is for that goes away with it, and leads on to the field. */
  const andOn = (act: () => void) => () => {
    act();
    field.current?.focus();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what grows is kept in sight.
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [messages, draft, problem]);
  return (
    <Page
      title="Chat"
      about={<Balance />}
      actions={
        <>
          <Select
            aria-label="Model"
            data={models}
            value={model}
            onChange={chat.choose}
            allowDeselect={false}
            disabled={is_busy}
            searchable
            w={220}
          />
          <Button variant="default" onClick={chat.clear} disabled={messages.length === 0}>
            New chat
          </Button>
        </>
      }
    >
      <Stack gap="sm" role="log" aria-label="Conversation" aria-busy={is_busy}>
        {messages.length === 0 && (
          <Empty title="Ask something">Each answer says what it has cost.</Empty>
        )}
        {messages.map((message, place) => (
          // Messages are only added and taken at the end.
          <Said
            // biome-ignore lint/suspicious/noArrayIndexKey: their place is what they are.
            key={place}
            message={message}
            onPrice={chat.price}
            onAnew={
              !is_busy && place === messages.length - 1
                ? andOn(() => chat.askAnew(model))
                : undefined
            }
          />
        ))}
        {is_busy && !ticket && <Said message={{ role: 'assistant', content: draft || '…' }} />}
        {is_busy && ticket && draft !== '' && (
          <Said message={{ role: 'assistant', content: draft }} />
        )}
        {is_busy && ticket && draft === '' && <Held ticket={ticket} onStop={andOn(chat.stop)} />}
        {problem && (
          <Alert color="red" title={problem.title} role="alert">
            {problem.words}{' '}
            {problem.way && <AppLink to={problem.way.to}>{problem.way.label}</AppLink>}
            {problem.call_id && (
              <Text size="sm" mt={4}>
                <AppLink to={`/requests/${problem.call_id}`}>What it cost</AppLink>
              </Text>
            )}
          </Alert>
        )}
        {!is_busy && left && <Left left={left} onRedeemed={chat.redeemed} />}
        <div ref={end} />
      </Stack>
      <Field
        field={field}
        returned={chat.returned}
        is_busy={is_busy}
        onStop={andOn(chat.stop)}
        onSend={(content) => chat.send(content, model)}
      />
    </Page>
  );
}

function Balance() {
  const { data } = useQuery({ ...reading('GET /api/chat/balance'), refetchInterval: 30_000 });
  if (data === undefined) return null;
  return (
    <>
      You can spend <Money amount={data.effective_available_balance} currency={data.currency} />.
    </>
  );
}

function Field({
  field,
  returned,
  is_busy,
  onSend,
  onStop,
}: {
  field: RefObject<HTMLTextAreaElement | null>;
  returned: string;
  is_busy: boolean;
  onSend: (content: string) => void;
  onStop: () => void;
}) {
  const [text, setText] = useState('');
  useEffect(() => {
    if (returned === '') return;
    // What was typed meanwhile stays behind it.
    setText((now) => (now === '' || now === returned ? returned : `${returned}\n\n${now}`));
  }, [returned]);
  const submit = () => {
    if (is_busy || text.trim() === '') return;
    onSend(text);
    setText('');
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  return (
    <Group align="flex-end" gap="xs">
      <Textarea
        ref={field}
        label="Message"
        description="Enter sends; Shift and Enter begins a new line."
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={press}
        autosize
        minRows={2}
        maxRows={10}
        flex={1}
        miw={200}
      />
      {is_busy ? (
        <Button variant="default" onClick={onStop}>
          Stop
        </Button>
      ) : (
        <Button onClick={submit} disabled={text.trim() === ''}>
          Send
        </Button>
      )}
    </Group>
  );
}
