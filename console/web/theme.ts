import { createTheme } from '@mantine/core';

// Colours by contrast: text on a filled button, and dimmed text on both backgrounds, reach 4.5:1.
export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 8 },
  autoContrast: true,
  defaultRadius: 'md',
  cursorType: 'pointer',
  // A link inside a text is told by more than its colour.
  components: {
    Anchor: { defaultProps: { underline: 'always' } },
    // A dialog's heading is no banner of the page.
    Modal: { defaultProps: { attributes: { header: { role: 'presentation' } } } },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
  },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
});
