// dist/node.mjs: what `firstlight` runs when it is installed as a package, where Node strips no types.
// Dependencies stay outside; they are installed beside it.
import { build } from 'esbuild'

const { metafile } = await build({
  entryPoints: ['src/node.ts'],
  outfile: 'dist/node.mjs',
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node22',
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
  metafile: true,
  absWorkingDir: new URL('..', import.meta.url).pathname,
})
console.log(`dist/node.mjs: ${Math.round(metafile.outputs['dist/node.mjs'].bytes / 1024)} KiB`)
