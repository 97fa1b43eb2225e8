// Writes dist/node, the program of an installed package, where Node does not strip types. A checkout uses it while it
// is newer than the sources. `npm ci` runs this (`prepare`); with --optional a failed build does not fail the
// installation.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const dist = (name) => fileURLToPath(new URL(`../dist/${name}`, import.meta.url))

try {
  const { bundleNode, licencesOf } = await import('./bundle-node.ts')
  const { bytes, packages } = await bundleNode(dist('node'))
  // The dashboard's two packages are in its own files.
  writeFileSync(dist('licences.txt'), licencesOf([...packages, 'preact', 'uplot'].sort()))
  console.log(`dist/node: ${Math.round(bytes / 1024)} KiB, with parts of ${packages.join(', ')}`)
} catch (error) {
  if (!process.argv.includes('--optional')) throw error
  console.warn(`No bundle was made, the sources run as they are: ${error.message}`)
}
