/** `npm run docs:site`: writes the documentation as static pages to dist/site. Fails at a broken link. */
import { fileURLToPath } from 'node:url'
import { writeSite } from './docs-site/write-site.ts'

const folder = fileURLToPath(new URL('../dist/site/', import.meta.url))
const { pages, broken } = await writeSite(folder)
for (const link of broken) console.error(`broken link: ${link}`)
if (broken.length > 0) process.exitCode = 1
else console.log(`dist/site: ${pages} pages`)
