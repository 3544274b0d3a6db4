import { Button, Menu, useMantineColorScheme } from '@mantine/core';
import { act } from '../parts/act';
import { signOut } from '../session/leave';
import type { Me } from '../session/me';

const schemes = [
  ['auto', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

/** Who is signed in, how the pages look, and how to leave. */
export function UserMenu({ me }: { me: Me }) {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button
          variant="subtle"
          size="xs"
          maw="min(200px, 40vw)"
          flex="none"
          classNames={{ label: 'ellipsis' }}
        >
          {me.user?.name ?? (me.is_operator ? 'Operator' : 'A key')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Colours</Menu.Label>
        {schemes.map(([scheme, label]) => (
          <Menu.Item
            key={scheme}
            onClick={() => setColorScheme(scheme)}
            aria-current={colorScheme === scheme}
            rightSection={colorScheme === scheme ? '✓' : null}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={() => void act(signOut)}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
