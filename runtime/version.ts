export const API_VERSION = '1.5.0';
