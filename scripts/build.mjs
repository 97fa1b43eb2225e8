// dist/node.mjs: what `firstlight` runs when it is installed as a package, where Node strips no types, and in a
// checkout
// while it is younger than the sources. `npm ci` makes it too (`prepare`); with --optional it fails nobody's
// installation.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const dist = (name) => fileURLToPath(new URL(`../dist/${name}`, import.meta.url))

try {
  const { bundleNode, licencesOf } = await import('./bundle-node.ts')
  const { bytes, packages } = await bundleNode(dist('node.mjs'))
  // The dashboard's two are in its own files.
  writeFileSync(dist('licences.txt'), licencesOf([...packages, 'preact', 'uplot'].sort()))
  console.log(`dist/node.mjs: ${Math.round(bytes / 1024)} KiB, with parts of ${packages.join(', ')}`)
} catch (error) {
  if (!process.argv.includes('--optional')) throw error
  console.warn(`No bundle was made, the sources run as they are: ${error.message}`)
}
