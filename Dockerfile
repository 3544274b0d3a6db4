# One image for api, gateway, workers and console: the command says which (docs/deploy.md).
FROM node:22-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev
COPY . .
# Programs are compiled as they start, and the console's pages are built: both are kept there.
RUN mkdir -p .data && chown node:node .data
ENV NODE_ENV=production MALLOC_ARENA_MAX=2
USER node
ENTRYPOINT ["node", "run.cjs"]
CMD ["api/main.ts"]
