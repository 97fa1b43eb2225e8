/** The pages at `/`, `/dashboard` and `/runbook`, and their hashed files in one flat folder, served below `/dashboard/`. */
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

const folder = fileURLToPath(new URL('src/dashboard', import.meta.url))

export default defineConfig({
  root: folder,
  build: {
    rolldownOptions: { input: ['index.html', 'overview.html', 'runbook.html'].map((page) => `${folder}/${page}`) },
    // scripts/build-dashboard.mjs writes what has changed.
    write: false,
    assetsDir: '',
    // Inlined files and the preload polyfill would need a weaker content security policy.
    assetsInlineLimit: 0,
    modulePreload: false,
    target: 'es2022',
  },
  experimental: {
    // The pages are at `/`, `/dashboard` and `/runbook` without a slash, so that everything works below any prefix.
    renderBuiltUrl: (file, { hostType }) => (hostType === 'html' ? `dashboard/${file}` : { relative: true }),
  },
})
