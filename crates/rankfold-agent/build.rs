//! Makes Rust code of the protocol, without a `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/gossip.proto");
    let files = protox::compile(["proto/gossip.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".rankfold.gossip.v1.Piece")
        .compile_fds(files)?;
    Ok(())
}
