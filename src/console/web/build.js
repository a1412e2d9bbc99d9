/**
 * Builds the web application into dist/console. `npm ci` runs it, so that `npm start` shows the console. Where only the
 * packages of production are installed there is nothing to build with; such a place gets the built files (docker/Dockerfile).
 */
import { join } from 'node:path';

const vite = await import('vite').catch(() => undefined);
if (vite) {
  const root = import.meta.dirname;
  await vite.build({
    root,
    configFile: false,
    logLevel: 'warn',
    build: {
      outDir: join(root, '..', '..', '..', 'dist', 'console'),
      emptyOutDir: true,
      target: 'es2022',
      // The polyfill would be a script in the page, which the policy forbids.
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
      reportCompressedSize: false,
    },
  });
} else console.log('The pages of the console are not built: vite is not installed (npm ci --omit=dev).');
