import { agentRows } from './rows/agents';
import { chatRows } from './rows/chat';
import { exportRows } from './rows/exports';
import { keyRows } from './rows/keys';
import { moneyRows } from './rows/money';
import { operationRows } from './rows/operations';
import { paymentRows } from './rows/payments';
import { peopleRows } from './rows/people';
import type { Row } from './rows/row';
import { settingRows } from './rows/settings';
import { setupRows } from './rows/setup';
import { ticketRows } from './rows/tickets';

/** Every route that is forwarded to the API. A row with a name comes after those without. */
export const rows: readonly Row[] = [
  ...moneyRows,
  ...ticketRows,
  ...paymentRows,
  ...exportRows,
  ...keyRows,
  ...peopleRows,
  ...agentRows,
  ...operationRows,
  ...settingRows,
  ...setupRows,
  ...chatRows,
];
