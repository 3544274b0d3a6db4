import { routes } from '../../../api/table';
import { settingsSchema } from '../../../gateway/config/settings';
import { faultsOf } from './odd-values';

test.each(routes.map((row) => [`${row.method} ${row.path}`, row] as const))(
  '%s refuses odd texts and numbers, and breaks at none',
  (_, row) => {
    expect(faultsOf(row.input)).toEqual([]);
  },
);

test.each(Object.entries(settingsSchema.shape))(
  'the section %s of a configuration refuses odd texts and numbers, and breaks at none',
  (_, section) => {
    expect(faultsOf(section)).toEqual([]);
  },
);
