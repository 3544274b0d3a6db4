import { ask, visits } from '../gateway/providers/sold';

// The sandbox refuses what the real provider does, so that what goes out to it is proven.

const question = { role: 'user', content: 'Hello' };
const answered = { role: 'assistant', content: 'Hi.' };

test.each<[object, number, string]>([
  [{ ...answered, prefix: true }, 200, ''],
  // Left out on the way, as they say nothing.
  [{ ...answered, refusal: null, annotations: [], reasoning_content: 'Hm.' }, 200, ''],
  [{ ...question, name: 'Ann' }, 200, ''],
  [{ ...answered, refusal: 'No.' }, 422, 'body.messages.1.assistant.refusal'],
  [{ ...answered, heard_of_by_nobody: 1 }, 422, 'body.messages.1.assistant.heard_of_by_nobody'],
])('Mistral is sent %j within a conversation: %i', async (said, status, place) => {
  const messages = [question, said, question];
  const answer = await ask('mistral', 'Hello', { body: { messages } });
  expect(answer.status).toBe(status);
  expect(answer.text).toContain(place);
  expect(visits).toHaveLength(1);
});
