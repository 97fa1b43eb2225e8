import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'
import { expect, it } from 'vitest'

it('all pages with their scripts, styles and pictures have at most 80 kB gzipped, and load nothing else', async () => {
  const built = await build({
    configFile: fileURLToPath(new URL('../../vite.config.ts', import.meta.url)),
    logLevel: 'silent',
  })
  const { output } = built as Rolldown.RolldownOutput
  const files = output.map((file) => Buffer.from(file.type === 'chunk' ? file.code : file.source))
  expect(output.map(({ fileName }) => fileName)).toEqual(
    expect.arrayContaining(['index.html', 'overview.html', 'runbook.html']),
  )
  expect(files.reduce((sum, bytes) => sum + gzipSync(bytes).length, 0)).toBeLessThanOrEqual(80_000)
  const pages = output.flatMap((file, at) => (file.fileName.endsWith('.html') ? [files[at]!.toString()] : []))
  for (const page of pages) expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
  for (const [at, { fileName }] of output.entries())
    if (fileName.endsWith('.css')) expect(files[at]!.toString()).not.toMatch(/url\((?!data:)|@import/)
})
