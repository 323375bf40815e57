use super::*;

fn kind(name: &str) -> ResourceKind {
    ResourceKind::new("", "v1", name, "things")
}

/// Returns an object that differs from the other objects of the same seed in a few bytes only. Objects of
/// different seeds consist of different words.
fn object(seed: u64, number: usize) -> Vec<u8> {
    let mut state = seed;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", state >> 8)
    };
    let template: String = (0..60).map(word).collect();
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{template}{hash:016x}").into_bytes()
}

fn pack_all(packing: &Packing, kind: &ResourceKind, seed: u64, count: usize) -> Vec<PackedBytes> {
    (0..count).map(|number| packing.pack(kind, Encoded::Protobuf(&object(seed, number))).unwrap()).collect()
}

#[test]
fn objects_are_decompressed_with_the_dictionary_they_were_compressed_with() {
    let (packing, kind) = (Packing::default(), kind("Pod"));
    let packed = pack_all(&packing, &kind, 1, SAMPLES + 50);
    assert!(packed[0].dictionary.is_none() && packed[SAMPLES].dictionary.is_some());
    for (number, packed) in packed.iter().enumerate() {
        assert_eq!(packing.unpack(packed).unwrap(), object(1, number));
    }
    let (before, after) = (packed[0].held_bytes(), packed[SAMPLES].held_bytes());
    assert!(after * 3 < before, "{before} bytes without a dictionary, {after} with one");
    let empty = packing.pack(&kind, Encoded::Protobuf(b"")).unwrap();
    assert_eq!(packing.unpack(&empty).unwrap(), b"");
}

#[test]
fn changed_objects_get_a_new_dictionary_and_older_objects_stay_readable() {
    let (packing, kind) = (Packing::default(), kind("Pod"));
    let old = pack_all(&packing, &kind, 1, SAMPLES + 2 * WINDOW + 2);
    let first = old.last().unwrap().dictionary.clone().unwrap();
    let new = pack_all(&packing, &kind, 2, 2 * WINDOW + SAMPLES + 2);
    let second = new.last().unwrap().dictionary.clone().unwrap();
    assert!(!Arc::ptr_eq(&first, &second), "the dictionary was not trained again");
    // Objects compressed with either dictionary are decompressed: of the objects that were packed second, the
    // first ones use the old dictionary, and the last ones the new dictionary.
    for (seed, packed) in [(1, &old), (2, &new)] {
        for (number, packed) in packed.iter().enumerate() {
            assert_eq!(packing.unpack(packed).unwrap(), object(seed, number));
        }
    }
}

#[test]
fn number_of_dictionaries_is_limited() {
    let packing = Packing::default();
    let mut dictionaries: Vec<Arc<Dictionary>> = Vec::new();
    for round in 0..MAX_GENERATIONS + 4 {
        let packed = pack_all(&packing, &kind("Pod"), u64::from(round), 2 * WINDOW + SAMPLES + 2);
        for used in packed.into_iter().filter_map(|packed| packed.dictionary) {
            if !dictionaries.iter().any(|known| Arc::ptr_eq(known, &used)) {
                dictionaries.push(used);
            }
        }
    }
    assert_eq!(dictionaries.len(), MAX_GENERATIONS as usize);
}

#[test]
fn secrets_are_never_used_for_a_dictionary() {
    let packing = Packing::default();
    let packed = pack_all(&packing, &kind("Secret"), 1, SAMPLES + 50);
    assert!(packed.iter().all(|packed| packed.dictionary.is_none()));
    assert!(packing.training.lock().samples.is_empty(), "no sample of a Secret is stored");
    assert_eq!(packing.unpack(&packed[7]).unwrap(), object(1, 7));
}

#[test]
fn random_bytes_are_compressed_and_decompressed() {
    let packing = Packing::default();
    let mut state = 7_u64;
    for _ in 0..SAMPLES + 5 {
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        let packed = packing.pack(&kind("Pod"), Encoded::Protobuf(&bytes)).unwrap();
        assert_eq!(packing.unpack(&packed).unwrap(), bytes);
    }
}
