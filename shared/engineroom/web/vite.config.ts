import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

// zipped compresses each file of assets to file.gz. The handler sends it to browsers as it is; the file
// itself is left out.
const zipped = (): Plugin => ({
  name: "zipped",
  apply: "build",
  generateBundle: {
    order: "post",
    handler(_, bundle) {
      for (const [name, file] of Object.entries(bundle)) {
        if (!name.startsWith("assets/")) continue;
        const content = file.type === "chunk" ? file.code : file.source;
        this.emitFile({ type: "asset", fileName: name + ".gz", source: gzipSync(content, { level: 9 }) });
        delete bundle[name];
      }
    },
  },
});

export default defineConfig({
  base: "./", // the page is served below the path of a stage too
  publicDir: false,
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the Content-Security-Policy loads no data: URLs
    chunkSizeWarningLimit: 200,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  plugins: [zipped()],
});
