/** The dashboard: a page and a few hashed files in one flat folder, served at `/dashboard` and below. */
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

export default defineConfig({
  root: fileURLToPath(new URL('src/dashboard', import.meta.url)),
  build: {
    // scripts/build-dashboard.mjs writes what has changed.
    write: false,
    assetsDir: '',
    // Inlined files and the preload polyfill would need a weaker content security policy.
    assetsInlineLimit: 0,
    modulePreload: false,
    target: 'es2022',
  },
  experimental: {
    // The page is at `/dashboard` without a slash, so that everything works below any prefix.
    renderBuiltUrl: (file, { hostType }) => (hostType === 'html' ? `dashboard/${file}` : { relative: true }),
  },
})
