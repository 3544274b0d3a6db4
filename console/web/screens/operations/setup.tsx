import { Stepper } from '@mantine/core';
import { text, useFilters } from '../../fields/filters';
import { OnlyOperators } from '../../operations/only-operators';
import { RefusedVersion } from '../../operations/refused-version';
import { Page } from '../../parts/page';
import { useMe } from '../../session/me';
import { CallStep } from '../../setup/call-step';
import { OrganizationStep, PriceStep, WalletStep } from '../../setup/steps';
import { TargetStep } from '../../setup/target-step';

/** The first run: from nothing to a call that is paid, in five screens. */
export function Setup() {
  return (
    <OnlyOperators title="Set up">
      <Inside />
    </OnlyOperators>
  );
}

function Inside() {
  const me = useMe();
  const [{ step }, set] = useFilters({ step: text });
  const asked = Math.min(4, Math.max(0, Number(step ?? 1) - 1 || 0));
  // What comes after the first belongs to an organization.
  const active = me.acting_org === null ? 0 : asked;
  const go = (place: number) => set({ step: String(place + 1) });
  const next = () => go(Math.min(4, active + 1));
  return (
    <Page title="Set up" about="From nothing to a call that is paid.">
      <RefusedVersion />
      <Stepper active={active} onStepClick={go} size="sm" aria-label={`Step ${active + 1} of 5`}>
        <Stepper.Step label="Organization">
          <OrganizationStep onDone={() => go(1)} />
        </Stepper.Step>
        <Stepper.Step label="Prices">
          <PriceStep onDone={next} />
        </Stepper.Step>
        <Stepper.Step label="Provider">
          <TargetStep onDone={next} />
        </Stepper.Step>
        <Stepper.Step label="Wallet">
          <WalletStep onDone={next} />
        </Stepper.Step>
        <Stepper.Step label="First call">
          <CallStep />
        </Stepper.Step>
      </Stepper>
    </Page>
  );
}
