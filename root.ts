/** The project's folder. Programs are compiled into one script that lies in it (run.cjs), so here and nowhere else `__dirname` holds. */
export const root = __dirname;
