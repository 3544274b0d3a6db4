/** Told apart by hue and by lightness, on white and on the dark page. */
export const colours = [
  'indigo.6',
  'orange.5',
  'teal.6',
  'pink.5',
  'yellow.6',
  'cyan.7',
  'grape.5',
  'lime.7',
] as const;

export const OTHERS = 'gray.5';
