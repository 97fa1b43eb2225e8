/** Writes the generated pages. A test fails when they are stale. */
import { writeFileSync } from 'node:fs'
import { configJsonSchema, configMarkdown } from './config-docs.ts'

const page = (name: string) => new URL(`../docs/${name}`, import.meta.url)

writeFileSync(page('config.md'), configMarkdown())
writeFileSync(page('firstlight.schema.json'), configJsonSchema())
console.log('Wrote docs/config.md and docs/firstlight.schema.json.')
